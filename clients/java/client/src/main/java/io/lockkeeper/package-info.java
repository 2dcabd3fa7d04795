/**
 * Locks, semaphores and latches of a Lockkeeper coordinator. Begin with {@link
 * io.lockkeeper.Lockkeeper#connect}.
 */
package io.lockkeeper;
