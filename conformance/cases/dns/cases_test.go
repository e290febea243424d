package dns

import (
	"testing"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
)

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		output string
		code   string
		want   gtypes.GomegaMatcher
		match  bool
	}{
		"records in any order":  {"NOERROR\na. A 1\nb. A 2", noError, ConsistOf("b. A 2", "a. A 1"), true},
		"one record too many":   {"NOERROR\na. A 1\nb. A 2", noError, ConsistOf("a. A 1"), false},
		"no record of the type": {"NOERROR", noError, ConsistOf(), true},
		"a record unasked for":  {"NOERROR\na. A 1", noError, ConsistOf(), false},
		"an unknown name":       {"NXDOMAIN", nxDomain, BeEmpty(), true},
		"another code":          {"NXDOMAIN", noError, ConsistOf(), false},
		"no answer at all":      {"testimage: lookup: i/o timeout", noError, ConsistOf(), false},
	} {
		answered := parseAnswer(test.output)
		ok, err := And(HaveField("Code", test.code), HaveField("Records", test.want)).Match(answered)
		if err != nil || ok != test.match {
			t.Errorf("%s: %+v matches %v, %v", name, answered, ok, err)
		}
	}
}
