"""Kill a process while it appends: what it was told is stored is there, whole and in its place.

::

    python examples/store_recover.py [DIRECTORY]
"""

import signal
import subprocess
import sys

from cometmq.store import Message, MessageStore

directory = sys.argv[1] if len(sys.argv) > 1 else "example-store"

if sys.argv[2:] == ["append"]:  # the process that is killed: prints each queue offset once it is stored
    with MessageStore.open(directory) as store:
        while True:
            print(store.append_message(Message("crash", b"x" * 100)).queue_offset, flush=True)

command = [sys.executable, __file__, directory, "append"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 1_000:
            process.send_signal(signal.SIGKILL)
            break
    told = [int(line), *map(int, process.stdout.read().split())]

with MessageStore.open(directory) as store:
    stored = [message.queue_offset for message in store.messages("crash", begin=told[0])]
    print("closed cleanly:", store.recovered.clean)
    print("damaged:", store.recovered.damages)
    print("all that was told is there:", stored[: len(told)] == told)
