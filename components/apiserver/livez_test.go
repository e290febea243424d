package apiserver

import (
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestLivezGrace: work that is unfinished after the start is no reason for a restart, for a while.
func TestLivezGrace(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	store := memory.New(clock)
	defer store.Close()
	all, err := gates.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &checks{
		base: &base{gates: all, made: clock.Now()}, stores: &stores{backends: []*backend{{store: store}}},
		rbac: true, progress: newProgress(), log: newLogFlushCheck(clock, func() {}),
	}
	s.config.EtcdHealthTimeout = time.Minute
	s.config.Clock, s.config.Serving.LivezGrace, s.config.Serving.StorageInitialization = clock, time.Minute, time.Hour
	failing := func() (names []string) {
		for _, c := range s.live() {
			if c.Probe(httptest.NewRequest("GET", "/livez", nil)) != nil {
				names = append(names, c.Name)
			}
		}
		return names
	}
	if names := failing(); len(names) > 0 {
		t.Errorf("at once: %v", names)
	}
	clock.Step(time.Minute)
	if len(failing()) == 0 {
		t.Error("nothing fails when the grace is over")
	}
	close(s.progress.ready)
	s.progress.synced.Store(true)
	if names := failing(); len(names) > 0 {
		t.Errorf("when all is done: %v", names)
	}
}

// TestHooksOfReloading: what follows the configuration of encryption is told of where it is followed.
func TestHooksOfReloading(t *testing.T) {
	for _, reload := range []bool{true, false} {
		s := &checks{base: &base{}}
		s.config.Encryption.File, s.config.Encryption.Reload = "/encryption.yaml", reload
		if s.has(reloadsEncryption) != reload {
			t.Errorf("with reload %v it is %v", reload, !reload)
		}
	}
}
