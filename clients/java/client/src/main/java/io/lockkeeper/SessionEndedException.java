package io.lockkeeper;

/**
 * The session is over, and everything in it was reported lost. The next acquire opens a new one,
 * unless the client was closed.
 */
public final class SessionEndedException extends LockkeeperException {

    private static final long serialVersionUID = 1;

    SessionEndedException(String message) {
        super(message);
    }
}
