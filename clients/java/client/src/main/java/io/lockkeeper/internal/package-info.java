/**
 * The session machine: a function of a state, an event and the time, which returns effects. It has
 * no sockets, threads, clocks or callbacks. It is not part of the API.
 */
package io.lockkeeper.internal;
