// Package snapshot holds what the scheduler knows of the cluster: nodes, the pods on them and the sums over both.
//
// It is changed one object at a time, and nothing is copied for a scheduling cycle: whoever owns a Snapshot
// serializes changes and cycles with one lock, so that a cycle sees a state that does not change under it.
package snapshot
