package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

// command has the fields of all commands.
type command struct {
	ID     int64  `json:"id"`
	Do     string `json:"do"`
	Target int64  `json:"target"`

	Endpoints           []string `json:"endpoints"`
	ClientName          string   `json:"client_name"`
	ReleaseOnDisconnect bool     `json:"release_on_disconnect"`
	Token               *string  `json:"token"`
	TokenFile           *string  `json:"token_file"`
	CAFile              string   `json:"ca_file"`
	CertFile            string   `json:"cert_file"`
	KeyFile             string   `json:"key_file"`
	ServerName          string   `json:"server_name"`

	Name           string   `json:"name"`
	Names          []string `json:"names"`
	Guard          string   `json:"guard"`
	Mode           string   `json:"mode"`
	Reason         string   `json:"reason"`
	Value          string   `json:"value"`
	Feed           string   `json:"feed"`
	Ticket         string   `json:"ticket"`
	Owner          string   `json:"owner"`
	WaitMS         *int64   `json:"wait_ms"`
	LeaseMS        int64    `json:"lease_ms"`
	MinReplicaAcks uint32   `json:"min_replica_acks"`
	Permits        uint32   `json:"permits"`
	Count          uint32   `json:"count"`
	By             uint32   `json:"by"`
	FencingToken   uint64   `json:"fencing_token,string"`

	Labels map[string]string `json:"labels"`
	OnLost *command          `json:"on_lost"`

	Seconds float64 `json:"seconds"`
	HoldMS  int64   `json:"hold_ms"`
	Client  any     `json:"client"`
	Tasks   int     `json:"tasks"`
}

var modes = map[string]lockkeeper.Mode{
	"": lockkeeper.Exclusive, "exclusive": lockkeeper.Exclusive, "fair": lockkeeper.Fair,
	"read": lockkeeper.Read, "write": lockkeeper.Write,
}

func millis(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func (c command) clientOptions() []lockkeeper.Option {
	options := []lockkeeper.Option{
		lockkeeper.WithSessionLease(millis(c.LeaseMS)),
		lockkeeper.WithClientName(c.ClientName),
		lockkeeper.WithTLS(lockkeeper.TLS{
			CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName,
		}),
	}
	if c.ReleaseOnDisconnect {
		options = append(options, lockkeeper.WithReleaseOnDisconnect())
	}
	if c.Token != nil {
		options = append(options, lockkeeper.WithToken(*c.Token))
	}
	if c.TokenFile != nil {
		options = append(options, lockkeeper.WithTokenFile(*c.TokenFile))
	}
	return options
}

func (c command) acquireOptions() []lockkeeper.AcquireOption {
	options := []lockkeeper.AcquireOption{
		lockkeeper.WithMode(modes[c.Mode]),
		lockkeeper.WithOwner(c.Owner),
		lockkeeper.WithLease(millis(c.LeaseMS)),
		lockkeeper.WithMinReplicaAcks(c.MinReplicaAcks),
		lockkeeper.WithReason(c.Reason),
	}
	for key, value := range c.Labels {
		options = append(options, lockkeeper.WithLabel(key, value))
	}
	if c.WaitMS != nil {
		options = append(options, lockkeeper.WithWaitTimeout(millis(*c.WaitMS)))
	}
	return options
}

// describe is a guard.
func describe(grant *lockkeeper.Grant) object {
	guard := object{"valid_ms": grant.ValidFor().Milliseconds()}
	if ids := grant.PermitIDs(); len(ids) > 0 {
		guard["permit_ids"] = ids
		return guard
	}
	tokens := map[string]string{}
	for name, token := range grant.FencingTokens() {
		tokens[name] = fmt.Sprint(token)
	}
	guard["fencing_tokens"] = tokens
	if len(tokens) == 1 {
		guard["fencing_token"] = fmt.Sprint(grant.FencingToken())
	}
	return guard
}

// reportLoss reports the cause that ended the context of the work, unless that was the release.
func (d *driver) reportLoss(it command, work context.Context) {
	var lost *lockkeeper.LostError
	if errors.As(context.Cause(work), &lost) {
		if it.OnLost != nil {
			d.start(*it.OnLost)
		}
		d.print(object{
			"event": "lost", "guard": it.Guard, "reason": lost.Reason,
			"fencing_token": fmt.Sprint(lost.Token), "detail": lost.Detail,
		})
	}
}

// reportYields reports requests to yield while a grant is held.
func (d *driver) reportYields(grant *lockkeeper.Grant) {
	for {
		select {
		case it := <-grant.YieldRequested():
			d.print(object{
				"event": "yield_requested", "name": it.Name, "by": it.By, "reason": it.Reason,
				"preempts": it.Preempts,
			})
		case <-grant.Context().Done():
			return
		}
	}
}

// failure is an error as the kit knows it.
func failure(err error) object {
	var (
		misconfigured *lockkeeper.MisconfiguredError
		unreachable   *lockkeeper.UnreachableError
		notGranted    *lockkeeper.NotGrantedError
		lost          *lockkeeper.LostError
		refused       *lockkeeper.RefusedError
		ended         *lockkeeper.SessionEndedError
	)
	it := object{"message": err.Error()}
	switch {
	case errors.As(err, &misconfigured):
		it["kind"] = "misconfigured"
	case errors.As(err, &unreachable):
		it["kind"] = "unreachable"
	case errors.As(err, &notGranted):
		it["kind"], it["reason"] = "not_granted", notGranted.Reason
	case errors.As(err, &lost):
		it["kind"], it["reason"] = "lost", lost.Reason
	case errors.As(err, &refused):
		it["kind"], it["reason"] = "refused", refused.Reason
	case errors.As(err, &ended):
		it["kind"] = "session_ended"
	case errors.Is(err, context.Canceled):
		it["kind"] = "cancelled"
	default:
		it["kind"] = "unsupported"
	}
	return it
}
