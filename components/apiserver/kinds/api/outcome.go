package api

// Outcome is what became of a write.
type Outcome int

// Unsure is a write of which the store's answer never came: it may have happened.
const (
	NotStored Outcome = iota
	Stored
	Unsure
)
