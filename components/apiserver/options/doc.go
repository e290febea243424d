// Package options is the configuration of the API server: its fields, the flags that set them, and the checks that need
// nothing but them and the machine.
package options
