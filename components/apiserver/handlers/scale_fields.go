package handlers

import (
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"quintet.dev/quintet/components/apiserver/serial"
)

// scaleManager makes the field manager of an endpoint to Scales.
func (t *tracker) scaleManager(d *endpoint) (*managedfields.FieldManager, error) {
	if d.kind.Custom != nil {
		c := customScaleConverter{}
		return managedfields.NewDefaultFieldManager(t.deduced, c, c, c, d.gvk, d.gvk.GroupVersion(), d.sub.Name, nil)
	}
	c := scaleConverter{}
	return managedfields.NewDefaultFieldManager(t.types, c, c, c, d.gvk, d.gvk.GroupVersion(), d.sub.Name, nil)
}

// scaleMeta is what a Scale says of itself.
var scaleMeta = metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"}

// scaleConverter does for Scale, which has one version, what converter does for a kind.
type scaleConverter struct{}

// ConvertToVersion implements runtime.ObjectConvertor.
func (scaleConverter) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	scale, ok := in.(*autoscalingv1.Scale)
	if !ok {
		u, ok := in.(runtime.Unstructured)
		if !ok {
			return nil, errNotConverted
		}
		scale = &autoscalingv1.Scale{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), scale); err != nil {
			return nil, err
		}
	}
	return serial.WithKind(scale, autoscalingv1.SchemeGroupVersion.WithKind("Scale")), nil
}

// Convert implements runtime.ObjectConvertor.
func (scaleConverter) Convert(any, any, any) error { return errNotConverted }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (scaleConverter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (scaleConverter) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (scaleConverter) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &autoscalingv1.Scale{TypeMeta: scaleMeta}, nil
}

// customScaleConverter is for Scales of custom resources, of which only those are booked that say what they are, and none can be applied:
// as with upstream.
type customScaleConverter struct{ scaleConverter }

// ConvertToVersion implements runtime.ObjectConvertor.
func (c customScaleConverter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	_, applied := in.(runtime.Unstructured)
	if applied || in.GetObjectKind().GroupVersionKind() != autoscalingv1.SchemeGroupVersion.WithKind("Scale") {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", autoscalingv1.SchemeGroupVersion)
	}
	return c.scaleConverter.ConvertToVersion(in, to)
}

// New implements runtime.ObjectCreater.
func (customScaleConverter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// unreadableScale is the answer to any body that can't be decoded as a Scale of a custom resource: as upstream, it speaks of what the
// server would say more with.
func (c *call) unreadableScale() error {
	return apierrors.NewBadRequest(runtime.NewNotRegisteredErrForType(c.api.config.Scheme.Name(), reflect.TypeFor[autoscalingv1.Scale]()).Error())
}
