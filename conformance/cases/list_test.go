package cases

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/conformance/suite"
)

func TestEveryCaseCarriesItsSpecification(t *testing.T) {
	id := regexp.MustCompile(`^[a-z][a-z-]*/[a-z0-9-]+$`)
	seen := map[string]bool{}
	for _, c := range List() {
		if !id.MatchString(c.ID) || seen[c.ID] {
			t.Errorf("%q: not an identifier, or taken", c.ID)
		}
		seen[c.ID] = true
		if !strings.Contains(c.Requirement, "MUST") || !strings.HasSuffix(c.Requirement, ".") {
			t.Errorf("%s: %q does not read as a requirement", c.ID, c.Requirement)
		}
		if !strings.HasPrefix(c.Reference, "https://") || c.Component == "" || c.Since == "" || c.Run == nil {
			t.Errorf("%s: incomplete specification", c.ID)
		}
		for _, need := range c.Needs {
			if !slices.Contains(suite.Features(), need) {
				t.Errorf("%s needs %q, which is no feature", c.ID, need)
			}
		}
	}
}
