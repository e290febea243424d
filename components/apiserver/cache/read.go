package cache

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// Get returns an object: by resourceVersion "" the newest there is, by "0" any that is at hand, else one that is not
// older.
func (c *Cache) Get(ctx context.Context, key, resourceVersion string) (*Entry, error) {
	ctx, span := tracing.Part(ctx, "cacher.Get")
	defer span.End()
	if resourceVersion == "" && c.replaceable() {
		return c.decrypted(ctx, key)
	}
	err := c.fresh.waitForGet(ctx, resourceVersion)
	if behind, ok := isBehind(err); ok {
		e, err := c.stored.get(ctx, key)
		c.counts.instead(behind, err)
		return e, err
	}
	if err != nil {
		return nil, err
	}
	if c.readsFromStore() {
		return c.decrypted(ctx, key)
	}
	if e, ok := c.Peek(key); ok {
		return e, nil
	}
	if err := c.state.broken.at(key); err != nil {
		c.retryDecrypt(ctx, key)
		if e, ok := c.Peek(key); ok {
			return e, nil
		}
		return nil, err
	}
	return nil, c.errs.notFound(key)
}

// List returns the objects that the options choose, with the meaning of resourceVersion, resourceVersionMatch, limit
// and continue that the API concepts page gives to each combination
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
func (c *Cache) List(ctx context.Context, o ListOptions) (*List, error) {
	ctx, span := tracing.Part(ctx, "cacher.GetList")
	defer span.End()
	m := newMatcher(c.kind, c.keys, o.Namespace, o.Predicate)
	o.Limit = max(o.Limit, 0)
	if o.Continue != "" {
		return c.listOn(ctx, o, m)
	}
	if o.ResourceVersion != "" {
		revision, err := parseRevision(o.ResourceVersion)
		if err != nil {
			return nil, errInvalid(err)
		}
		_, one := m.key(c.keys, o.Namespace)
		switch {
		case exact(o, revision) && one:
			err := c.fresh.catchUp(ctx, revision, c.set.timeout)
			if o.ResourceVersionMatch == "" { // a get by name returns the newest state
				return c.listNow(ctx, o, m, m.prefix, err)
			}
			if _, behind := isBehind(err); err != nil && !behind {
				return nil, err
			}
			return c.listAt(ctx, o, m, m.prefix, revision)
		case exact(o, revision):
			return c.listAt(ctx, o, m, m.prefix, revision)
		}
	}
	if o.ResourceVersion == "0" && !c.cacheDisabled {
		o.Limit = 0 // as upstream: what is at hand is given whole
	}
	return c.listNow(ctx, o, m, m.prefix, c.fresh.waitUntilFresh(ctx, o.ResourceVersion))
}

// listNow lists what there is in the cache after freshening it, or in the store if the cache has fallen behind that.
func (c *Cache) listNow(ctx context.Context, o ListOptions, m matcher, from string, freshened error) (*List, error) {
	if behind, ok := isBehind(freshened); ok {
		l, err := c.pageFromStore(ctx, behind.revision, o, m, from)
		c.counts.instead(behind, err)
		return l, err
	}
	if freshened != nil {
		return nil, freshened
	}
	if c.readsFromStore() {
		return c.pageFromStore(ctx, c.set.Revision(), o, m, from)
	}
	c.retryDecrypt(ctx, m.prefix)
	s, revision := c.state.snapshotNow()
	if err := c.state.broken.below(m.prefix); err != nil {
		return nil, err
	}
	return c.page(s, revision, o, m, from)
}

// exact reports whether a list without continue wants one revision and no other: so says the match, or a limit together
// with a revision and no match.
func exact(o ListOptions, revision int64) bool {
	return revision > 0 && (o.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		o.ResourceVersionMatch == "" && o.Limit > 0)
}

// listOn goes on where a continue token says.
func (c *Cache) listOn(ctx context.Context, o ListOptions, m matcher) (*List, error) {
	t, err := decodeContinue(o.Continue, m.prefix)
	if err != nil {
		return nil, err
	}
	if o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	if t.revision > 0 {
		l, err := c.listAt(ctx, o, m, t.from, t.revision)
		if errors.Is(err, errCompacted) {
			return nil, errContinueExpired(t.from, m.prefix)
		}
		return l, err
	}
	// A negative revision is the token for the inconsistent rest of a list.
	return c.listNow(ctx, o, m, t.from, c.fresh.waitUntilFresh(ctx, ""))
}

// listAt lists at an exact revision, from a kept state or else from the store.
func (c *Cache) listAt(ctx context.Context, o ListOptions, m matcher, from string, revision int64) (*List, error) {
	if revision < c.set.past.Load() {
		return nil, errCompacted
	}
	var late error
	if !c.set.progressUnsupported() {
		if late = c.fresh.waitUntilFresh(ctx, formatRevision(revision)); late != nil && !isTooLarge(late) {
			return nil, late
		}
	}
	if s := c.state.snapshotAt(revision); s != nil && !c.readsFromStore() && c.state.broken.below(m.prefix) == nil {
		return c.page(s, revision, o, m, from)
	}
	l, err := c.pageFromStore(ctx, revision, o, m, from)
	if late != nil && isTooLarge(err) {
		return nil, late
	}
	return l, err
}

// page collects the entries of one answer out of a state.
func (c *Cache) page(s *snapshot, revision int64, o ListOptions, m matcher, from string) (*List, error) {
	l := &List{Revision: revision}
	if m.all() {
		l.cache = c
	}
	var rest int64
	more := false
	fetched := 0
	var fault error
	within := m.narrowed(c.keys, o.Namespace)
	index := s.walk(c.keys, o.Namespace, &m, from, func(e *Entry) bool {
		if !strings.HasPrefix(e.Key, within) {
			return true
		}
		if full := o.Limit > 0 && int64(len(l.Entries)) == o.Limit; full {
			more = true // whether it matches or not: it isn't evaluated before the next page
			rest++
			return m.all()
		}
		fetched++
		takes, err := m.takes(e)
		if takes {
			l.Entries = append(l.Entries, e)
		}
		fault = err
		return err == nil
	})
	if fault != nil {
		return nil, fault
	}
	c.counts.list(index, fetched, len(l.Entries))
	if more {
		c.state.keep(s)
		l.Continue = encodeContinue(l.Entries[len(l.Entries)-1].Key+"\x00", m.prefix, !c.cacheDisabled, revision)
		if m.all() {
			l.Remaining = &rest
		}
	}
	return l, nil
}

// errCompacted tells that a revision has been compacted.
var errCompacted = errExpired("The resourceVersion for the provided list is too old.")

// storePage is how many keys are asked of the store at once.
const storePage = 500

// pageFromStore collects the entries of one answer out of the store's own history.
func (c *Cache) pageFromStore(ctx context.Context, revision int64, o ListOptions, m matcher, from string) (*List,
	error) {
	ctx, span := tracing.Part(ctx, "List(recursive=true) etcd3")
	defer span.End()
	l := &List{Revision: revision}
	remembered := c.state.remembers(revision)
	within := m.narrowed(c.keys, o.Namespace)
	r := storage.Range{Prefix: within, From: max(from, within), Revision: revision, Limit: storePage}
	for {
		page, err := c.set.config.Store.List(ctx, r)
		if errors.Is(err, storage.ErrCompacted) {
			return nil, errCompacted
		}
		if errors.Is(err, storage.ErrFuture) {
			return nil, errBeyond(revision, c.set.Revision())
		}
		if err != nil {
			return nil, c.errs.store(err, "list")
		}
		for i := range page.Items {
			if o.Limit > 0 && int64(len(l.Entries)) == o.Limit {
				l.Continue = encodeContinue(l.Entries[len(l.Entries)-1].Key+"\x00", m.prefix, remembered, revision)
				if rest := int64(len(page.Items)-i) + page.Remaining; m.all() {
					l.Remaining = &rest
				}
				return l, nil
			}
			e, err := c.codec.decode(&page.Items[i])
			if err != nil {
				return nil, errListed(page.Items[i].Key, err)
			}
			takes, err := m.takes(e)
			if err != nil {
				return nil, err
			}
			if takes {
				l.Entries = append(l.Entries, e)
			}
		}
		if !page.More {
			return l, nil
		}
		r.From = page.Items[len(page.Items)-1].Key + "\x00"
	}
}
