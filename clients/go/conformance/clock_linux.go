package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the clock that all processes of the machine share.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
