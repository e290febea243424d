package eventratelimit

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"
)

const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"

func send(p *Plugin, namespace, who, object string, dryRun bool) error {
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: object}}
	return p.Validate(context.Background(),
		admission.NewAttributesRecord(event, nil, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, namespace, "e",
			corev1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, dryRun,
			&user.DefaultInfo{Name: who}), nil)
}

func TestLimits(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	for limit, want := range map[string]struct{ second, other string }{
		"Server":          {"limit reached on type Server for key ", "limit reached on type Server for key "},
		"Namespace":       {"limit reached on type Namespace for key ns", ""},
		"User":            {"limit reached on type User for key jane", ""},
		"SourceAndObject": {"limit reached on type SourceAndObject for key pod", ""},
	} {
		p, err := New([]byte(head+"limits: [{type: "+limit+", qps: 1, burst: 1}]"), clock)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := send(p, "ns", "jane", "pod", true); err != nil {
				t.Errorf("%s: a dry run: %v", limit, err)
			}
		}
		if err := send(p, "ns", "jane", "pod", false); err != nil {
			t.Errorf("%s: the first: %v", limit, err)
		}
		if err := send(p, "ns", "jane", "pod", false); !apierrors.IsTooManyRequests(err) ||
			err.Error() != "Too many requests: "+want.second {
			t.Errorf("%s: the second: %v", limit, err)
		}
		if err := send(p, "other", "joe", "node", false); (err == nil) != (want.other == "") {
			t.Errorf("%s: another: %v", limit, err)
		}
		clock.Step(time.Second)
		if err := send(p, "ns", "jane", "pod", false); err != nil {
			t.Errorf("%s: a second later: %v", limit, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for file, want := range map[string]string{
		"": "limits: Invalid value: null: must not be empty",
		head +
			"limits: [{type: Galaxy, qps: 1, burst: " +
			"1}]": `limits[0].type: Unsupported value: "Galaxy": supported values: "Namespace", "Server", "SourceAndObject", "User"`,
		head +
			"limits: [{type: User, qps: 0, burst: 0, cacheSize: -1}]": "[limits[0].burst: Invalid value: 0: must be positive, " +
			"limits[0].qps: Invalid value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]",
		head + "bounds: []":         "limits: Invalid value: null: must not be empty",
		"apiVersion: v1\nkind: Pod": "it is a Pod of v1, want a Configuration of eventratelimit.admission.k8s.io/v1alpha1",
	} {
		if _, err := New([]byte(file), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", file, err, want)
		}
	}
}

// TestOtherKinds: only requests for the core group's Events are limited.
func TestOtherKinds(t *testing.T) {
	for kind, limited := range map[schema.GroupKind]bool{{Kind: "Event"}: true,
		{Group: "events.k8s.io", Kind: "Event"}: false, {Kind: "Pod"}: false} {
		p, err := New([]byte(head+"limits: [{type: Server, qps: 1, burst: 1}]"),
			testingclock.NewFakeClock(time.Unix(0, 0)))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err = p.Validate(context.Background(),
				admission.NewAttributesRecord(&corev1.Event{}, nil, kind.WithVersion("v1"), "ns", "e",
					schema.GroupVersionResource{Group: kind.Group, Version: "v1", Resource: "events"}, "",
					admission.Create,
					nil, false, &user.DefaultInfo{}), nil)
		}
		if apierrors.IsTooManyRequests(err) != limited {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
