package memory

import (
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
