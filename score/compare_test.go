package score

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// did is an entry: who did what to a pod, and when in ms.
func did(at float64, manager string, verb Verb, name, why string) Entry {
	return Entry{At: at, Object: Object{Kind: "Pod", Namespace: "n", Name: name, UID: name}, Verb: verb,
		Writers: []Writer{{Manager: manager}}, Why: why}
}

func of(entries ...Entry) *Score { return &Score{APIVersion: APIVersion, Kind: Kind, Entries: entries} }

func TestCompare(t *testing.T) {
	made := did(1, "kcm", Create, "web-84cd44fcbb-cbn6h", "")
	ready := did(5, "kubelet", Update, "web-84cd44fcbb-cbn6h", "")
	for name, c := range map[string]struct {
		a, b *Score
		want []string
	}{
		"the same but for generated names": {of(made, ready), of(did(2, "kcm", Create, "web-5d8f7c9b6d-zz9zz", ""),
			did(6, "kubelet", Update, "web-5d8f7c9b6d-zz9zz", "")), nil},
		"only in one": {of(made, ready, did(7, "me", Create, "alone", "")), of(made, ready), []string{
			"Pod n/alone: only in the first score"}},
		"only in the other": {of(), of(made), []string{"Pod n/web-*-*: only in the second score"}},
		"one more of a kind": {of(made), of(made, did(8, "kcm", Create, "web-84cd44fcbb-flnxs", "")), []string{
			"Pod n/web-*-* #2: only in the second score"}},
		"another writer": {of(made, ready), of(made, did(5, "operator", Update, "web-84cd44fcbb-cbn6h", "")), []string{
			"Pod n/web-*-*: written by kubelet once and never; written by operator never and once"}},
		"more writes": {of(made, ready), of(made, ready, ready), []string{"Pod n/web-*-*: kubelet wrote once and 2 times"}},
		"another order": {of(did(1, "a", Update, "p", ""), did(2, "b", Update, "p", "")),
			of(did(1, "b", Update, "p", ""), did(2, "a", Update, "p", "")), []string{"Pod n/p: order: a, b; and: b, a"}},
		"events": {of(made, did(2, "kubelet", Event, "web-84cd44fcbb-cbn6h", "Pulled: x")),
			of(made, did(2, "kubelet", Event, "web-84cd44fcbb-cbn6h", "Failed: x")), []string{
				"Pod n/web-*-*: events only in the first score: Pulled; events only in the second score: Failed"}},
		"longer": {of(made, ready), of(made, did(2001, "kubelet", Update, "web-84cd44fcbb-cbn6h", "")), []string{
			"Pod n/web-*-*: took 4 ms and 2.0 s"}},
	} {
		var got []string
		for _, o := range Compare(c.a, c.b).Differing() {
			got = append(got, o.Object+": "+strings.Join(o.Differences, "; "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if ignored := Compare(of(made), of(), "Pod"); len(ignored.Objects) != 0 {
		t.Errorf("compared what is to be ignored: %v", ignored.Objects)
	}
}

func TestGeneratedNames(t *testing.T) {
	for name, want := range map[string]string{
		"web": "web", "web-0": "web-0", "web-84cd44fcbb": "web-*", "web-84cd44fcbb-cbn6h": "web-*-*", "node-1": "node-1",
		"apiserver-wlv32tlttr4jl3gtroqexyxapa": "apiserver-*", "my-operator": "my-operator",
		"data-3f2a1c9e-0b1d-4c55-9a77-1234567890ab": "data-*",
	} {
		if got := withoutGenerated(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestCompareIsWrittenInAllForms(t *testing.T) {
	c := Compare(of(did(1, "me", Create, "<b>", "")), &Score{Dropped: 3})
	var text, page strings.Builder
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 of 1 objects differ", "3 entries were dropped",
		"Pod n/<b>\n  only in the first score"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(page.String(), "<b>") || !strings.Contains(page.String(), "only in the first score") {
		t.Errorf("the page is\n%s", page.String())
	}
}

func TestScoreIsSavedAndLoaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	s := of(did(1, "me", Create, "p", "because"))
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(file); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := (&Score{Kind: "Other"}).Save(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "not a score") {
		t.Errorf("another document: %v", err)
	}
}
