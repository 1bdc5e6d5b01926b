// SPDX-License-Identifier: MIT
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/** Objects that live for a while, a map that grows and shrinks, large arrays; then a server that has nothing to do. */
public final class Churn {
    private static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        x = (x ^ (x >>> 27)) * 0x94d049bb133111ebL;
        return x ^ (x >>> 31);
    }

    public static void main(String[] words) throws InterruptedException {
        int steps = Integer.parseInt(words[0]);
        long seed = Long.parseLong(words[1]), sum = 0;
        Map<Long, byte[]> map = new HashMap<>();
        ArrayDeque<long[]> recent = new ArrayDeque<>();
        for (int i = 0; i < steps; i++) {
            long bits = mix(seed + i);
            byte[] old = map.put(bits & 0x3fff, new byte[64 + (int) ((bits >>> 20) & 0x7ff)]);
            sum += old == null ? 1 : old.length;
            if (i % 500 == 0) {
                recent.add(new long[40_000]);
                recent.getLast()[(int) ((bits >>> 40) % 40_000)] = bits;
                if (recent.size() > 24) {
                    for (long each : recent.removeFirst()) sum += each;
                }
            }
        }
        System.out.printf("entries: %d%nanswer: %016x%n", map.size(), sum);
        Thread.sleep(3_600_000);
    }
}
