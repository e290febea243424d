package main

import (
	"os"
	"os/signal"
	"syscall"
)

// powerSignal is SIGPWR, with which the first process of a machine tells that the machine shuts down.
const powerSignal = syscall.Signal(30)

// shuttingDown returns a channel that is closed when the machine begins to shut down.
func shuttingDown() <-chan struct{} {
	signals, told := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, powerSignal)
	go func() {
		<-signals
		close(told)
	}()
	return told
}
