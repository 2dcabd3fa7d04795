package io.lockkeeper;

/**
 * A failure of the client or of the coordinator. {@link LockLostException} is not among them: it is
 * an {@link IllegalMonitorStateException}, as users of {@link java.util.concurrent.locks.Lock}
 * expect.
 */
public abstract sealed class LockkeeperException extends RuntimeException
        permits MisconfiguredException,
                UnreachableException,
                NotGrantedException,
                RefusedException,
                SessionEndedException {

    private static final long serialVersionUID = 1;

    LockkeeperException(String message) {
        super(message);
    }
}
