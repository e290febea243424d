package checks

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

var someNames = []string{"", "a", "a-b", "-a", "a-", "a.b", "a..b", ".a", "a.", "A", "a_b", "ä", "9", "a/b", "a/b/c",
	"/a", "a/", "example.com/a-b", "example.com/A",
	strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254),
	"x.y/" + strings.Repeat("a", 64), "a\n"}

// agree holds each check against the library's.
func agree(t *testing.T, name string) {
	t.Helper()
	for check, n := range map[string][2]int{
		"label":     {len(Label(name)), len(utilvalidation.IsDNS1123Label(name))},
		"subdomain": {len(Subdomain(name)), len(validation.NameIsDNSSubdomain(name, false))},
		"prefix":    {len(SubdomainOf(name, true)), len(validation.NameIsDNSSubdomain(name, true))},
		"key":       {len(LabelKey(name, nil)), len(metavalidation.ValidateLabelName(name, nil))},
	} {
		if n[0] != n[1] {
			t.Errorf("%s of %q: %d complaints, want %d", check, name, n[0], n[1])
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range someNames {
		agree(t, name)
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range someNames {
		f.Add(name)
	}
	f.Fuzz(agree)
}
