package cli

import (
	"regexp"
	"testing"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/conformance"
	"quintet.dev/quintet/conformance/cases"
)

// TestFiltersOfExamples: those in the help texts choose a case, as --filter takes them.
func TestFiltersOfExamples(t *testing.T) {
	filters := regexp.MustCompile(`--filter '?([^' \n]+)`)
	found := 0
	var look func(*cobra.Command)
	look = func(command *cobra.Command) {
		for _, match := range filters.FindAllStringSubmatch(command.Example, -1) {
			found++
			if _, err := conformance.Choose(conformance.Options{Filter: match[1]}, cases.List()); err != nil {
				t.Errorf("example of %s: %v", command.CommandPath(), err)
			}
		}
		for _, sub := range command.Commands() {
			look(sub)
		}
	}
	look((&app{}).root())
	if found == 0 {
		t.Error("no example has a filter")
	}
}
