package cache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// broken remembers which of a cache's values in the store can't be read. They don't silently vanish: reads that would
// show them fail, as with upstream, until they are repaired or removed in the store, or can be decrypted again.
type broken struct {
	mu   sync.Mutex
	keys map[string]fault
	// found collects what the list under way can't read; nil when there is none.
	found map[string]fault
	// asked is when it was last tried to decrypt again what could not be.
	asked time.Time
}

// fault is why the value that a key has since a revision can't be read.
type fault struct {
	err      error
	revision int64
}

func (b *broken) add(key string, why fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[string]fault{}
	}
	b.keys[key] = why
	if b.found != nil {
		b.found[key] = why
	}
}

func (b *broken) remove(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
	delete(b.found, key)
}

// begin is called before the whole content is listed, settle when it takes the place of what was known.
func (b *broken) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found = map[string]fault{}
}

func (b *broken) settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found != nil {
		b.keys, b.found = b.found, nil
	}
}

// at is the error of reading a key.
func (b *broken) at(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why, ok := b.keys[key]; ok {
		return errUnreadable(why.err)
	}
	return nil
}

// below is the error of reading all keys with a prefix.
func (b *broken) below(prefix string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, why := range b.keys {
		if strings.HasPrefix(key, prefix) {
			return errListed(key, why.err)
		}
	}
	return nil
}

// undecrypted is why a value is unreadable that lies in the store encrypted. As with upstream, only lists say at which
// key. Of other values of built-in kinds, clients are told what the decoder says.
type undecrypted struct{ error }

// undecoded is why a custom resource is unreadable, of which, as with upstream, no more is told.
type undecoded struct{ error }

// encrypted begins every value that is encrypted; errEncrypted is upstream's word for finding one where none is
// expected.
var (
	encrypted    = []byte("k8s:enc:")
	errEncrypted = errors.New("identity transformer tried to read encrypted data")
)

func errUnreadable(err error) error {
	if sealed, ok := err.(undecrypted); ok {
		return apierrors.NewInternalError(sealed.error)
	}
	if custom, ok := err.(undecoded); ok {
		return &api.ConversionError{Err: custom.error}
	}
	return errPlain(err)
}

func errListed(key string, err error) error {
	if sealed, ok := err.(undecrypted); ok {
		err = undecrypted{fmt.Errorf("unable to transform key %q: %w", key, sealed.error)}
	}
	return errUnreadable(err)
}
