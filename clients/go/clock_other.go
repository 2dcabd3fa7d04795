//go:build !linux

package lockkeeper

import (
	"time"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
)

// now is read from Go's monotonic clock.
func now() machine.Instant { return time.Since(processStart) + 1 }
