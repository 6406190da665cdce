//go:build !(linux && amd64)

package pgid

import "time"

// systemMilli is the wall clock in Unix milliseconds, floored.
func systemMilli() int64 { return time.Now().UnixMilli() }
