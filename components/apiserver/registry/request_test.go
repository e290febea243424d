package registry

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestInNamespace: an object belongs to the namespace of its request, or is refused.
func TestInNamespace(t *testing.T) {
	const other = "the namespace of the provided object does not match the namespace sent on the request"
	for name, c := range map[string]struct{ request, given, want, fails string }{
		"as the request says":     {request: "a", given: "a", want: "a"},
		"left out":                {request: "a", given: "", want: "a"},
		"another":                 {request: "a", given: "b", want: "b", fails: other},
		"of what has none":        {request: "", given: "b", want: ""},
		"none of what has none":   {request: "", given: "", want: ""},
		"other letters, no match": {request: "a", given: "A", want: "A", fails: other},
	} {
		obj := &corev1.ConfigMap{}
		obj.Namespace = c.given
		err := (&Request{Namespace: c.request}).InNamespace(obj)
		if textOf(err) != c.fails || obj.Namespace != c.want || err != nil && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, in %q", name, err, obj.Namespace)
		}
	}
}

// TestSameName: what is written is what the path names.
func TestSameName(t *testing.T) {
	for name, c := range map[string]struct{ given, namespace, fails string }{
		"the same": {given: "x"},
		"none":     {fails: "the name of the object (x based on URL) was undeterminable: name must be provided"},
		"another":  {given: "y", fails: "the name of the object (y) does not match the name on the URL (x)"},
		"elsewhere, which is told first": {given: "y", namespace: "b",
			fails: "the namespace of the provided object does not match the namespace sent on the request"},
	} {
		obj := &corev1.ConfigMap{ObjectMeta: meta(c.given)}
		obj.Namespace = c.namespace
		err := (&Request{Namespace: "a", Name: "x"}).SameName(obj)
		if textOf(err) != c.fails || err != nil && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckName: names that can't be a part of a path are refused before the store is asked.
func TestCheckName(t *testing.T) {
	for name, fails := range map[string]string{
		"x": "", "A_b:c": "", "a..b": "", "...": "",
		".":   `Name parameter invalid: ".": may not be '.'`,
		"..":  `Name parameter invalid: "..": may not be '..'`,
		"a/b": `Name parameter invalid: "a/b": may not contain '/'`,
		"a%b": `Name parameter invalid: "a%b": may not contain '%'`,
		"%/":  `Name parameter invalid: "%/": may not contain '/';may not contain '%'`,
	} {
		err := (&Request{Name: name}).CheckName()
		if textOf(err) != fails || err != nil && !apierrors.IsBadRequest(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
	f := newFixture(t, setup{}, "configmaps")
	defer f.unwritten()()
	_, _, err := f.delete("configmaps", "a/b", nil)
	f.fails(err, `Name parameter invalid: "a/b": may not contain '/'`)
	_, err = f.update("configmaps", "..", nil)
	f.fails(err, `Name parameter invalid: "..": may not be '..'`)
}

// TestGet: what is stored now, or something as new as a resource version; errors name the resource that was asked for.
func TestGet(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps", "events")
	made := f.mustCreate("configmaps", &corev1.ConfigMap{ObjectMeta: meta("x")})
	get := func(name, version string) error {
		t.Helper()
		e, err := f.writer("configmaps", "get", name).Get(f.ctx(), version)
		if err == nil && e.Object.GetUID() != made.GetUID() {
			t.Errorf("got %v", e.Object)
		}
		return err
	}
	for _, version := range []string{"", "0", made.GetResourceVersion()} {
		f.fails(get("x", version), "")
	}
	f.fails(get("y", ""), `configmaps "y" not found`)
	f.fails(get("y", made.GetResourceVersion()), `configmaps "y" not found`)
	// an error of the store's that upstream doesn't interpret: clients get it as one of the server's
	f.fails(get("x", "old"), `resourceVersion: Invalid value: "old": strconv.ParseUint: parsing "old": invalid syntax`)
	for key, ep := range f.endpoints {
		if key.Resource != "events" || key.Subresource != "" {
			continue
		}
		want := `events "none" not found`
		if key.Group != "" {
			want = `events.events.k8s.io "none" not found`
		}
		_, err := ep.Reader(&Request{Namespace: "a", Name: "none"}).Get(f.ctx(), "")
		f.fails(err, want)
	}
}
