// Package clientgo makes a lock of Lockkeeper the lock of a leader election of
// k8s.io/client-go/tools/leaderelection: the next leader starts milliseconds after the last one has
// released it, and each leader has a fencing token.
//
//	lock := clientgo.New(client, "my-controller", hostname, 15*time.Second)
//	err := lock.Run(ctx, leaderelection.LeaderElectionConfig{
//		RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
//		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: stop},
//	})
//
// client-go keeps a record in an object of Kubernetes, which says who leads and since when. There
// is no such object here. What decides is the lock: Create acquires it, Update renews it for the
// lease, or releases it, and none of them succeeds for two candidates at once. The record is made
// for the elector:
//
//   - The leader's own record is what its elector wrote last. It is kept in the [Lock].
//   - The record of another leader has its identity, and a lease that is at most a second too long.
//     The identity is a digest if the coordinator authenticates its callers and the leader has
//     another identity there, and that of an owner if the lock is not held by an election.
//     The right `describe` is needed to know it. Without that right, OnNewLeader is not called for
//     others, and the candidate leads like any other.
//   - Its RenewTime is when the record was read. AcquireTime and LeaderTransitions are not known.
//
// With access rules, a candidate needs the rights `acquire` and `release` for the lock.
package clientgo
