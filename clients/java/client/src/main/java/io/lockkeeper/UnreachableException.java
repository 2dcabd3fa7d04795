package io.lockkeeper;

/**
 * No coordinator answered within 6 s, or within the wait limit. Nothing is held: what was granted
 * nevertheless is released.
 */
public final class UnreachableException extends LockkeeperException {

    private static final long serialVersionUID = 1;

    /** The last address that was tried. */
    private final String address;

    UnreachableException(String message, String address) {
        super(message);
        this.address = address;
    }

    /**
     * The last address that was tried.
     *
     * @return the address
     */
    public String address() {
        return address;
    }
}
