package storage

import "sync/atomic"

// Memo is a place beside one version of a value in a store that lies in this process. A reader leaves there what it has
// made of the value, for others that read the same: also those of stores that share the value.
type Memo struct{ made atomic.Value }

// Leave puts down what was made of the value; all that is left in one place is of one type. It may be called on nil.
func (m *Memo) Leave(made any) {
	if m != nil {
		m.made.Store(made)
	}
}

// Made returns what was last left, or nil. It may be called on nil.
func (m *Memo) Made() any {
	if m == nil {
		return nil
	}
	return m.made.Load()
}
