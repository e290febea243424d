package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The elements of JUnit XML, with what Maven's Surefire adds for cases that ran more than once. GitLab and Jenkins read
// them, and skip what they don't know.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Flakes     int             `xml:"flakes,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`

	total float64 // of Time
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name          string         `xml:"name,attr"`
	ClassName     string         `xml:"classname,attr"`
	Time          string         `xml:"time,attr"`
	Failure       *junitReason   `xml:"failure,omitempty"`
	RerunFailures []junitAttempt `xml:"rerunFailure,omitempty"`
	FlakyFailures []junitAttempt `xml:"flakyFailure,omitempty"`
	Skipped       *junitReason   `xml:"skipped,omitempty"`
	Error         *junitReason   `xml:"error,omitempty"`
	RerunErrors   []junitAttempt `xml:"rerunError,omitempty"`
	FlakyErrors   []junitAttempt `xml:"flakyError,omitempty"`
	SystemOut     string         `xml:"system-out,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// junitAttempt is an attempt besides the one that the case's own elements tell of.
type junitAttempt struct {
	Message    string `xml:"message,attr"`
	Type       string `xml:"type,attr"`
	StackTrace string `xml:"stackTrace"`
}

// WriteJUnit writes the report as JUnit XML: a suite for each profile, with every case in the narrowest that it is part
// of. Inconclusive becomes an error, Skipped and NotSupported become skipped with their reason. Earlier attempts become
// flakyFailure where the case passed in the end, and rerunFailure where it did not.
func (r *Report) WriteJUnit(w io.Writer) error {
	doc := junitSuites{Name: "conformance of " + r.Cluster.Name, Time: seconds(r.Seconds)}
	at := map[string]int{}
	for _, c := range r.Cases {
		profile := "full"
		if len(c.Profiles) > 0 {
			profile = c.Profiles[0]
		}
		i, ok := at[profile]
		if !ok {
			i = len(doc.Suites)
			at[profile] = i
			doc.Suites = append(doc.Suites, r.junitSuite(profile))
		}
		doc.Suites[i].add(c)
	}
	for _, suite := range doc.Suites {
		doc.Tests += suite.Tests
		doc.Failures += suite.Failures
		doc.Errors += suite.Errors
		doc.Skipped += suite.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitSuite begins the suite of a profile.
func (r *Report) junitSuite(profile string) junitSuite {
	suite := junitSuite{Name: "conformance." + profile, Time: seconds(0),
		Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
		Properties: []junitProperty{
			{"suite.version", r.Suite.Version}, {"suite.digest", r.Suite.Digest}, {"suite.filter", r.Suite.Filter},
			{"suite.features", strings.Join(r.Suite.Features, " ")},
			{"cluster.name", r.Cluster.Name}, {"cluster.version", r.Cluster.Version},
			{"cluster.nodes", strconv.Itoa(len(r.Cluster.Nodes))}, {"machine", r.Machine.String()},
			{"run.result", string(r.Result())},
		}}
	for _, p := range r.Profiles {
		if p.Name == profile {
			suite.Properties = append(suite.Properties, junitProperty{"profile.result", string(p.Result)})
		}
	}
	return suite
}

// add adds a case to a suite and its sums.
func (s *junitSuite) add(c Case) {
	s.Tests++
	s.total += c.Seconds
	s.Time = seconds(s.total)
	switch c.Outcome {
	case Failed:
		s.Failures++
	case Inconclusive:
		s.Errors++
	case Skipped, NotSupported:
		s.Skipped++
	case Flaky:
		s.Flakes++
	}
	s.Cases = append(s.Cases, junit(c))
}

func junit(c Case) junitCase {
	out := junitCase{Name: c.ID, ClassName: "conformance." + c.Component, Time: seconds(c.Seconds),
		SystemOut: c.specification()}
	reason := &junitReason{Message: firstLine(c.Reason), Type: string(c.Outcome), Text: c.Reason}
	switch c.Outcome {
	case Failed:
		out.Failure = reason
	case Inconclusive:
		out.Error = reason
	case Skipped, NotSupported:
		reason.Message = string(c.Outcome) + ": " + reason.Message
		out.Skipped = reason
	}
	if len(c.Attempts) == 0 {
		return out
	}
	passed := c.Outcome == Passed || c.Outcome == Flaky
	for _, attempt := range c.Attempts[:len(c.Attempts)-1] {
		one := junitAttempt{firstLine(attempt.Reason), string(attempt.Outcome), attempt.Reason}
		switch failed := attempt.Outcome == Failed; {
		case failed && passed:
			out.FlakyFailures = append(out.FlakyFailures, one)
		case failed:
			out.RerunFailures = append(out.RerunFailures, one)
		case passed:
			out.FlakyErrors = append(out.FlakyErrors, one)
		default:
			out.RerunErrors = append(out.RerunErrors, one)
		}
	}
	return out
}

// specification is what the case requires, for those who read its result alone.
func (c *Case) specification() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\nprofiles: %s\nneeds: %s\n", c.Requirement, c.Reference, strings.Join(c.Profiles, " "),
		cmp.Or(strings.Join(c.Needs, " "), "nothing"))
	for i, attempt := range c.Attempts {
		fmt.Fprintf(&b, "attempt %d: %s after %.3f s\n", i+1, attempt.Outcome, attempt.Seconds)
	}
	return b.String()
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
