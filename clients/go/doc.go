// Package lockkeeper is the Go client of Lockkeeper, a lock service over gRPC: locks, semaphores,
// latches and elections, with leases that are renewed while your program works, and a notice when a
// lock is lost.
//
//	client, err := lockkeeper.Dial(ctx, []string{"http://locks-1:7625", "http://locks-2:7625"})
//	...
//	work := func(ctx context.Context, grant *lockkeeper.Grant) error {
//		return writeReport(ctx, grant.FencingToken())
//	}
//	err = client.WithLock(ctx, "nightly-report", work)
//
// # Sessions
//
// All locks of a [Client] share one session, which is opened when first needed. It renews them, and
// is resumed at the next endpoint if its stream breaks or a coordinator stops: your code does not
// notice. It ends, and everything in it is lost, if no coordinator can be reached for as long as
// its lease. The client never replaces it silently: only an acquire that starts afterwards opens
// another one.
//
// # Loss
//
// A lock can be lost: an operator releases it, the store loses it, or no coordinator can be reached
// until its lease ends. [Grant.Context] is cancelled then, with a [*LostError] as its cause.
// Another owner may hold the lock from that moment on, so stop. A process that was paused cannot
// notice in time; send [Grant.FencingToken] with every write, and let the resource refuse a smaller
// token than it has seen.
//
// # Errors
//
// Every error of this package is the error of the context, or one of [*MisconfiguredError],
// [*UnreachableError], [*NotGrantedError], [*LostError], [*RefusedError] and [*SessionEndedError].
// Use [errors.Is] with [ErrLocked], [ErrLost] and [ErrSessionEnded], or [errors.As].
package lockkeeper
