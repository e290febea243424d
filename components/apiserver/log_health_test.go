package apiserver

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestABlockedLogIsNotHealthy(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	flushes, goOn := make(chan struct{}), make(chan struct{})
	l := newLogFlushCheck(clock, func() { flushes <- struct{}{}; <-goOn })
	go func() { _ = l.run(t.Context()) }()
	<-flushes
	clock.Step(stuckAfter)
	if err := l.check(nil); err != nil {
		t.Errorf("blocked for as long as it may: %v", err)
	}
	clock.Step(time.Second)
	if err := l.check(nil); err == nil {
		t.Error("a log that is blocked is healthy")
	}
	goOn <- struct{}{} // takes up again
	<-flushes          // the tick that it missed: what came before is done
	if err := l.check(nil); err != nil {
		t.Errorf("after it took up again: %v", err)
	}
	goOn <- struct{}{}
}
