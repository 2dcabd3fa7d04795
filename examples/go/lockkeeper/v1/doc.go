// Package lockkeeperv1 has the stubs that `go generate` in the folder above makes of the proto files.
package lockkeeperv1
