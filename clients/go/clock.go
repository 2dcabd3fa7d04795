package lockkeeper

import "time"

// processStart is where the monotonic clock begins if the platform has no better one.
var processStart = time.Now()
