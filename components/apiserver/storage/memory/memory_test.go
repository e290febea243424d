package memory

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Store {
		s := New(nil)
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestHistoryIsBounded(t *testing.T) {
	s := New(nil)
	defer s.Close()
	for i := range 3 * keptRevisions {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.log) < keptRevisions || len(s.log) > 2*keptRevisions {
		t.Errorf("%d events are kept", len(s.log))
	}
	if _, err := s.List(t.Context(), storage.Range{Prefix: "/", Revision: 2}); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("the first state: %v", err)
	}
}
