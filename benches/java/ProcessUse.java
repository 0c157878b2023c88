import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What a process has used of the machine so far, from Linux's /proc. */
record ProcessUse(double cpuMicros, double rssMiB, double anonymousMiB) {
    private static final double MICROS_PER_TICK = 10_000; // USER_HZ is 100 on every Linux
    private static final int USER_TIME = 11; // counted from the state, which follows the name
    private static final int SYSTEM_TIME = 12;
    private static final int IDLE = 4; // these three in the first line of /proc/stat
    private static final int WAITING_FOR_IO = 5;
    private static final int STEAL = 8;

    static ProcessUse of(long pid) throws IOException {
        String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        long ticks = Long.parseLong(fields[USER_TIME]) + Long.parseLong(fields[SYSTEM_TIME]);
        return new ProcessUse(ticks * MICROS_PER_TICK, statusMiB(pid, "VmRSS:"), statusMiB(pid, "RssAnon:"));
    }

    /** CPU time that the whole machine has spent at work so far, what a hypervisor took from it included. */
    static double machineCpuMicros() throws IOException {
        String[] fields = Files.readAllLines(Path.of("/proc/stat")).get(0).trim().split(" +");
        long ticks = 0;
        for (int field = 1; field <= STEAL; field++) {
            if (field != IDLE && field != WAITING_FOR_IO) {
                ticks += Long.parseLong(fields[field]);
            }
        }
        return ticks * MICROS_PER_TICK;
    }

    double cpuMicrosSince(ProcessUse earlier) {
        return cpuMicros - earlier.cpuMicros;
    }

    private static double statusMiB(long pid, String name) throws IOException {
        return Files.readAllLines(Path.of("/proc/" + pid + "/status")).stream()
                .filter(line -> line.startsWith(name))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElse(0) / 1024.0;
    }
}
