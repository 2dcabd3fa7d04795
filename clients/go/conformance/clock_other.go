//go:build !linux

package main

import "time"

// monotonic is the wall clock: the kit runs on Linux only.
func monotonic() time.Duration { return time.Duration(time.Now().UnixNano()) }
