package io.lockkeeper;

/** An address, a file or a value cannot be used; nothing was sent. The message names it. */
public final class MisconfiguredException extends LockkeeperException {

    private static final long serialVersionUID = 1;

    MisconfiguredException(String message) {
        super(message);
    }
}
