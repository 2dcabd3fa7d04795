package lockkeeper.interop;

import org.redisson.api.RBucket;
import org.redisson.api.RLock;

/** What contenders do inside a lock. Nothing of it is atomic, so that two who are inside together leave traces. */
final class Contest {
    private Contest() {}

    /** kind, name, rounds, witness, sides: counts the witness up and signs the list, once a round. */
    static String contend(Client client, String[] arguments) {
        RLock lock = client.lock(arguments[0], arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        for (int round = 0; round < rounds; round++) {
            lock.lock();
            try {
                takePart(client, arguments[3], arguments[4]);
            } finally {
                lock.unlock();
            }
        }
        return "";
    }

    /** name, rounds, left, right: counts both up inside the write lock. */
    static String writePair(Client client, String[] arguments) {
        RLock lock = client.lock("write", arguments[0]);
        int rounds = Integer.parseInt(arguments[1]);
        for (int round = 0; round < rounds; round++) {
            lock.lock();
            try {
                countUp(client, arguments[2]);
                countUp(client, arguments[3]);
            } finally {
                lock.unlock();
            }
        }
        return "";
    }

    /** name, rounds, left, right: fails if the two differ inside the read lock. */
    static String readPair(Client client, String[] arguments) {
        RLock lock = client.lock("read", arguments[0]);
        int rounds = Integer.parseInt(arguments[1]);
        for (int round = 0; round < rounds; round++) {
            lock.lock();
            try {
                int left = count(client, arguments[2]);
                int right = count(client, arguments[3]);
                if (left != right) {
                    throw new IllegalStateException("a writer was inside: " + left + " and " + right);
                }
            } finally {
                lock.unlock();
            }
        }
        return "";
    }

    /** kind, name, list, signature: signs the list inside the lock. */
    static String sign(Client client, String[] arguments) {
        RLock lock = client.lock(arguments[0], arguments[1]);
        lock.lock();
        try {
            client.redisson().getList(arguments[2]).add(arguments[3]);
        } finally {
            lock.unlock();
        }
        return "";
    }

    static void takePart(Client client, String witness, String sides) {
        countUp(client, witness);
        client.redisson().getList(sides).add("java");
    }

    private static void countUp(Client client, String witness) {
        int count = count(client, witness);
        bucket(client, witness).set(Integer.toString(count + 1));
    }

    private static int count(Client client, String witness) {
        String text = bucket(client, witness).get();
        return text == null ? 0 : Integer.parseInt(text);
    }

    private static RBucket<String> bucket(Client client, String witness) {
        return client.redisson().getBucket(witness);
    }
}
