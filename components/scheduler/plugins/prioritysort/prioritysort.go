// Package prioritysort orders the pods of the queue by priority, and then by how long they wait.
package prioritysort

import "quintet.dev/quintet/components/scheduler/queue"

// Name of the plug-in.
const Name = "PrioritySort"

// Plugin orders the active queue.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints are none: it refuses no pods.
func (Plugin) Hints() []queue.Hint { return nil }

// Less tells whether a is tried before b.
func (Plugin) Less(a, b *queue.Item) bool { return queue.First(a, b) }
