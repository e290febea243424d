// Package snapshot holds the scheduler's view of the cluster: nodes, the pods on them and sums over both.
//
// It is changed one object at a time, and nothing is copied for a scheduling cycle: the owner of a Snapshot
// serializes changes and cycles with one lock, so that a cycle sees a state that does not change under it.
package snapshot
