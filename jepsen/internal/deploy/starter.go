package deploy

import (
	"os/exec"
	"runtime"
	"sync"
)

// starter runs on one thread that lives as long as this process: the kernel
// ends a child with the thread that started it, not with its process.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startPinned starts the command from that thread.
func startPinned(cmd *exec.Cmd) error {
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}
