/** A {@code LockProvider} of ShedLock whose locks are held by Lockkeeper. */
package io.lockkeeper.shedlock;
