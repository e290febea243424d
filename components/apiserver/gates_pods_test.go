package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGatesOfBinding: what comes to a pod with its node, and what goes.
func TestGatesOfBinding(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			f := start(t, withoutServiceAccounts,
				gated(map[string]bool{"PodTopologyLabelsAdmission": on, "ClearingNominatedNodeNameAfterBinding": on}))
			client := f.client(t).CoreV1()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
				Labels: map[string]string{corev1.LabelTopologyZone: "z"}}}
			if _, err := client.Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			pod, err := client.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pod.Status.NominatedNodeName = "wished"
			if _, err := client.Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"own": "x"}},
				Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
			if err := client.Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := client.Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			labels, nominated := 2, ""
			if !on {
				labels, nominated = 0, "wished"
			}
			if len(got.Labels) != labels || got.Status.NominatedNodeName != nominated || got.Spec.NodeName != "n" {
				t.Errorf("labels %v, nominated %q, on %q", got.Labels, got.Status.NominatedNodeName, got.Spec.NodeName)
			}
			got.Status.NominatedNodeName = "another"
			if _, err := client.Pods("default").UpdateStatus(t.Context(), got,
				metav1.UpdateOptions{}); apierrors.IsInvalid(err) != on || err != nil && !on {
				t.Errorf("nominated for another: %v", err)
			}
		})
	}
}

func TestGateTokenRequestServiceAccountUIDValidation(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"TokenRequestServiceAccountUIDValidation": on}))
		accounts := f.client(t).CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		answer, err := accounts.CreateToken(t.Context(), "a",
			&authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, metav1.CreateOptions{})
		switch {
		case on && !apierrors.IsConflict(err):
			t.Errorf("another UID: %v", err)
		case !on && (err != nil || answer.Status.Token == "" || answer.UID != "other"):
			t.Errorf("another UID, of which nothing is asked: %+v, %v", answer, err)
		}
		const body = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{"uid":"other"},"spec":{}}`
		r, _ := f.with(t, "POST", "/api/v1/namespaces/default/serviceaccounts/a/token", body, "Content-Type",
			"application/json")
		if warned := strings.Contains(r.Header.Get("Warning"), "(other) does not match"); warned == on {
			t.Errorf("%v: warning %q", on, r.Header.Get("Warning"))
		}
	}
}
