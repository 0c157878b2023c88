import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;

/** One connection of {@link RawLoad}: a window of sends that are under way, told apart by their opaque numbers. */
final class RawConnection {
    private static final int RECEIVE_SIZE = 1 << 17;
    private static final int PREFIX_SIZE = 8;
    private static final byte[] CODE = "\"code\":".getBytes();
    private static final byte[] OPAQUE = "\"opaque\":".getBytes();

    interface Answered {
        void note(int code, long nanos);
    }

    private final SelectionKey key;
    private final SocketChannel channel;
    private final SendFrame[] frames;
    private final Answered answered;
    private final long[] sentAt;
    private final byte[] received = new byte[RECEIVE_SIZE];
    private final ByteBuffer in = ByteBuffer.allocateDirect(RECEIVE_SIZE);
    private final ByteBuffer out;
    private int receivedSize;
    private int next;
    private int underWay;
    private boolean stopping;

    RawConnection(SelectionKey key, SendFrame[] frames, int first, int window, Answered answered) {
        this.key = key;
        this.channel = (SocketChannel) key.channel();
        this.frames = frames;
        this.next = first;
        this.answered = answered;
        sentAt = new long[window];
        out = ByteBuffer.allocateDirect(window * SendFrame.longest(frames));
    }

    SocketChannel channel() {
        return channel;
    }

    boolean isWaiting() {
        return underWay > 0;
    }

    void stop() {
        stopping = true;
    }

    void fillWindow() throws IOException {
        for (int slot = 0; slot < sentAt.length; slot++) {
            underWay++;
            send(slot);
        }
        flush();
    }

    /** Takes the answers that have come, and sends on. */
    void serve() {
        try {
            if (key.isReadable()) {
                in.clear().limit(received.length - receivedSize);
                int size = channel.read(in);
                if (size < 0) {
                    throw new EOFException("the broker closed a connection");
                }
                in.flip().get(received, receivedSize, size);
                receivedSize += size;
                takeAnswers();
            }
            flush();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void takeAnswers() {
        int position = 0;
        while (receivedSize - position >= PREFIX_SIZE) {
            int end = position + 4 + intAt(position);
            if (end > receivedSize) {
                break;
            }
            takeAnswer(position + PREFIX_SIZE, received[position + 4] != 0);
            position = end;
        }
        System.arraycopy(received, position, received, 0, receivedSize - position);
        receivedSize -= position;
    }

    private void takeAnswer(int header, boolean isBinary) {
        int code = isBinary ? intAt(header) >> 16 : numberBehind(CODE, header);
        int slot = (isBinary ? intAt(header + 5) : numberBehind(OPAQUE, header)) - SendFrame.FIRST_OPAQUE;
        answered.note(code, System.nanoTime() - sentAt[slot]);
        if (stopping) {
            underWay--;
        } else {
            send(slot);
        }
    }

    private void send(int slot) {
        frames[next].put(out, slot);
        next = (next + 1) % frames.length;
        sentAt[slot] = System.nanoTime();
    }

    private void flush() throws IOException {
        if (out.position() > 0) {
            channel.write(out.flip());
            out.compact();
            int wanted = out.position() > 0 ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ;
            if (key.interestOps() != wanted) {
                key.interestOps(wanted);
            }
        }
    }

    private int intAt(int position) {
        return received[position] << 24 | (received[position + 1] & 0xFF) << 16
                | (received[position + 2] & 0xFF) << 8 | received[position + 3] & 0xFF;
    }

    private int numberBehind(byte[] name, int from) {
        int at = from;
        for (int i = 0; i < name.length; at++) {
            i = received[at] == name[i] ? i + 1 : received[at] == name[0] ? 1 : 0;
        }
        int number = 0;
        for (; received[at] >= '0' && received[at] <= '9'; at++) {
            number = 10 * number + received[at] - '0';
        }
        return number;
    }
}
