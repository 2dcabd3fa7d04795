package lockkeeper

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
)

// now is read from the clock that also runs while the machine sleeps.
func now() machine.Instant {
	var it unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &it); err != nil {
		return time.Since(processStart) + 1
	}
	return machine.Instant(it.Nano())
}
