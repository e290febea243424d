package cache

import (
	"context"
	"errors"
)

// errWentBack: the store is one of before, from a backup, say. What the caches have of later never was, and the watch
// of the store would be silent until it had caught up.
var errWentBack = errors.New("the store is at an older revision than before: it was restored")

// ask returns the store's revision, and notices when it goes back.
func (s *Set) ask(ctx context.Context) (int64, error) {
	before := s.Revision()
	now, err := s.config.Store.Revision(ctx)
	if err == nil && now < before {
		s.wentBack(before)
		return 0, errWentBack
	}
	return now, err
}

// wrote notices by the revision of a write, before which the caches had reached another, that the store went back.
func (s *Set) wrote(revision, before int64) {
	if revision <= before {
		s.wentBack(before)
	}
}

// wentBack makes the set refill its caches; watches end, as they can't be resumed. Many callers may report it that had
// seen the caches at an earlier revision: late reports have no effect.
func (s *Set) wentBack(before int64) {
	if end := s.refill.Load(); end != nil && s.Revision() >= before {
		(*end)(errWentBack)
	}
}
