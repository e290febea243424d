package apiserver_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestComponentStatuses(t *testing.T) {
	client := start(t).client(t)
	statuses := client.CoreV1().ComponentStatuses()
	list, err := statuses.List(t.Context(), metav1.ListOptions{})
	if err != nil || list.ResourceVersion != "" || len(list.Items) != 3 || list.Items[0].Name != "controller-manager" ||
		list.Items[1].Name != "scheduler" {
		t.Fatalf("%v, %+v", err, list)
	}
	if c := list.Items[2].Conditions[0]; list.Items[2].Name != "etcd-0" || c.Status != "True" || c.Message != "ok" {
		t.Errorf("%+v", list.Items[2])
	}
	list, err = statuses.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=etcd-0"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%v, %+v", err, list)
	}
	list, err = statuses.List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("%v, %+v", err, list)
	}
	if _, err := statuses.Get(t.Context(), "etcd-0", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := statuses.Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) ||
		err.Error() != `componentstatus "x" not found` {
		t.Error(err)
	}
	if _, err := statuses.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Error(err)
	}
	if err := statuses.Delete(t.Context(), "etcd-0", metav1.DeleteOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Error(err)
	}
}
