// The peer in Java. Each subcommand does the work of one row once and prints its metrics, one line
// `metric value` for each.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicBoolean;

class Bench {
    // The compiler needs about this long to produce its final version of a loop.
    static final long WARMING = 1_000_000_000L;
    static final long WINDOW = 200_000_000L;
    static final long[] SLEEPS = {10, 50, 100};
    static final int RACES = 20;

    interface Batch {
        void run(long operations) throws Exception;
    }

    interface Operation {
        void run() throws Exception;
    }

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "spawn-join" -> inVirtualThread(() -> timed(Bench::spawnJoin));
            case "race" -> race();
            case "hop" -> inVirtualThread(() -> timed(operations -> hop(Integer.parseInt(words[1]), operations)));
            case "files-read", "files-write" -> files(words[0], Integer.parseInt(words[1]));
            default -> throw new IllegalArgumentException("unknown subcommand " + words[0]);
        }
        // The losers of races are still asleep.
        System.exit(0);
    }

    // The first thread belongs to the kernel, and waking it costs more than the rest.
    static void inVirtualThread(Operation operation) throws Exception {
        Thread thread = Thread.startVirtualThread(() -> {
            try {
                operation.run();
            } catch (Exception unexpected) {
                throw new AssertionError(unexpected);
            }
        });
        thread.join();
    }

    static void print(String metric, double value) {
        System.out.println(metric + " " + value);
    }

    // Warms up, then measures over a window.
    static void timed(Batch batch) throws Exception {
        long operations = 1;
        long warm = System.nanoTime();
        long took = 0;
        while (System.nanoTime() - warm < WARMING) {
            long began = System.nanoTime();
            batch.run(operations);
            took = System.nanoTime() - began;
            if (took < WINDOW / 8) {
                operations *= 2;
            }
        }
        operations = Math.max(1, (long) ((double) operations * WINDOW / took));
        long began = System.nanoTime();
        batch.run(operations);
        print("time", (double) (System.nanoTime() - began) / operations);
    }

    static void spawnJoin(long operations) throws Exception {
        for (long done = 0; done < operations; done++) {
            Thread.startVirtualThread(() -> {}).join();
        }
    }

    static void hop(int capacity, long operations) throws Exception {
        BlockingQueue<Long> queue =
            capacity == 0 ? new SynchronousQueue<>() : new ArrayBlockingQueue<>(capacity);
        Thread sender = Thread.startVirtualThread(() -> {
            try {
                for (long value = 0; value < operations; value++) {
                    queue.put(value);
                }
            } catch (InterruptedException unexpected) {
                throw new AssertionError(unexpected);
            }
        });
        Thread receiver = Thread.startVirtualThread(() -> {
            try {
                for (long expected = 0; expected < operations; expected++) {
                    if (queue.take() != expected) {
                        System.exit(1);
                    }
                }
            } catch (InterruptedException unexpected) {
                throw new AssertionError(unexpected);
            }
        });
        sender.join();
        receiver.join();
    }

    static void race() throws Exception {
        double[] times = new double[RACES];
        for (int race = -RACES; race < RACES; race++) {
            long began = System.nanoTime();
            AtomicBoolean done = new AtomicBoolean();
            for (long length : SLEEPS) {
                Thread.startVirtualThread(() -> {
                    try {
                        Thread.sleep(length);
                    } catch (InterruptedException unexpected) {
                        throw new AssertionError(unexpected);
                    }
                    done.set(true);
                });
            }
            while (!done.get()) {
                Thread.onSpinWait();
            }
            if (race >= 0) {
                times[race] = System.nanoTime() - began;
            }
        }
        Arrays.sort(times);
        double median = times[RACES / 2];
        print("time", median);
        print("over", median - SLEEPS[0] * 1e6);
    }

    static void files(String way, int size) throws Exception {
        Path path = Path.of("/dev/shm/ecru-bench-" + ProcessHandle.current().pid());
        String text = "e".repeat(size);
        Files.writeString(path, text);
        try {
            Operation operation =
                way.equals("files-read")
                    ? () -> {
                        if (Files.readString(path).length() != size) {
                            throw new AssertionError("it is too short");
                        }
                    }
                    : () -> Files.writeString(path, text);
            long warm = System.nanoTime();
            while (System.nanoTime() - warm < WARMING) {
                operation.run();
            }
            double[] times = new double[size <= 1 << 20 ? 20_000 : 20];
            for (int index = 0; index < times.length; index++) {
                long began = System.nanoTime();
                operation.run();
                times[index] = System.nanoTime() - began;
            }
            Arrays.sort(times);
            double mean = Arrays.stream(times).average().orElseThrow();
            double variance = Arrays.stream(times).map(time -> (time - mean) * (time - mean)).average().orElseThrow();
            print("time", times[times.length / 2]);
            print("spread", Math.sqrt(variance));
        } finally {
            Files.delete(path);
        }
    }
}
