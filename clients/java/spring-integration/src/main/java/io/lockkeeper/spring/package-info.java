/** A {@code LockRegistry} of Spring Integration whose locks are held by Lockkeeper. */
package io.lockkeeper.spring;
