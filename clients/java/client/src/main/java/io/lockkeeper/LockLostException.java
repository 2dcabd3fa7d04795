package io.lockkeeper;

/** The lock or the permits were lost before they were released: the work was not protected. */
public final class LockLostException extends IllegalMonitorStateException {

    private static final long serialVersionUID = 1;

    /** The loss. */
    private final transient Loss loss;

    LockLostException(String message, Loss loss) {
        super(message);
        this.loss = loss;
    }

    /**
     * What was lost, and why.
     *
     * @return the loss
     */
    public Loss loss() {
        return loss;
    }
}
