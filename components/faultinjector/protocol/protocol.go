// Package protocol is what a fault injector tells the process that started it. It compiles on every system, as that
// process may run where the injector can't.
package protocol

// InForce is the line that is printed once the faults are in force.
const InForce = "faults are in force"
