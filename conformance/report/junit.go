package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"time"
)

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string       `xml:"name,attr"`
	ClassName string       `xml:"classname,attr"`
	Time      string       `xml:"time,attr"`
	Failure   *junitReason `xml:"failure,omitempty"`
	Error     *junitReason `xml:"error,omitempty"`
	Skipped   *junitReason `xml:"skipped,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: a suite for each component; Faulty becomes an error, Skipped and
// NotSupported become skipped with their reason.
func (r *Report) WriteJUnit(w io.Writer) error {
	var doc junitSuites
	for _, component := range r.Components() {
		suite := junitSuite{
			Name:      component.Name,
			Tests:     len(component.Cases),
			Failures:  component.Totals[Failed],
			Errors:    component.Totals[Faulty],
			Skipped:   component.Totals[Skipped] + component.Totals[NotSupported],
			Timestamp: r.Started.UTC().Format(time.RFC3339),
		}
		var total float64
		for _, c := range component.Cases {
			total += c.Seconds
			suite.Cases = append(suite.Cases, junit(c))
		}
		suite.Time = seconds(total)
		doc.Suites = append(doc.Suites, suite)
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

func junit(c Case) junitCase {
	out := junitCase{Name: c.ID + ": " + c.Requirement, ClassName: c.Component, Time: seconds(c.Seconds)}
	reason := &junitReason{Message: firstLine(c.Reason), Text: c.Reason}
	switch c.Outcome {
	case Failed:
		out.Failure = reason
	case Faulty:
		out.Error = reason
	case Skipped, NotSupported:
		reason.Message = string(c.Outcome) + ": " + reason.Message
		out.Skipped = reason
	}
	return out
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
