/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WallClock is a time by the clock of a window's zone: a cron expression of five fields, again and again, or a date with a time of day, once.
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?|[0-9A-Za-z*?/,-]+( +[0-9A-Za-z*?/,-]+){4})$`
type WallClock string

// Window is a time that begins and ends by the wall clock of a time zone, such as each weekend, or once. A beginning or an end within the
// hour that the clock skips happens when the skip ends; in an hour that it goes through twice, at the first pass.
// +kubebuilder:validation:XValidation:rule="self.from != self.to",message="from and to must not be the same"
// +kubebuilder:validation:XValidation:rule="self.from.matches('T[0-9]{2}:') == self.to.matches('T[0-9]{2}:')",message="from and to must both be cron expressions, or both dates with a time of day"
// +kubebuilder:validation:XValidation:rule="!self.from.matches('T[0-9]{2}:') || !self.to.matches('T[0-9]{2}:') || timestamp(self.from + (size(self.from) == 16 ? ':00Z' : 'Z')) < timestamp(self.to + (size(self.to) == 16 ? ':00Z' : 'Z'))",message="from and to must be dates that exist, and to must be after from"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || timestamp('2026-01-01T12:00:00Z').getFullYear(self.timeZone) == 2026",message="timeZone must be a name of the tz database, such as Europe/Berlin"
type Window struct {
	// Name of the window. Messages about the gate name it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// From is when the window begins: a cron expression of five fields, such as '0 15 * * 5', or a date with a time of day, such as
	// '2026-12-23T00:00'. That moment belongs to the window.
	// +required
	From WallClock `json:"from"`

	// To is when the window ends, given like its beginning. That moment does not belong to the window.
	// +required
	To WallClock `json:"to"`

	// TimeZone is that of the wall clock, by its name in the tz database, such as 'Europe/Berlin'. By default, it is UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the tz database, such as Europe/Berlin"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// Override is an exception from the switch and the windows of a gate, that ends by itself.
type Override struct {
	// Closed is what the gate is meanwhile.
	// +required
	Closed bool `json:"closed"`

	// Until is when the exception ends. From then on it is as if it were not there.
	// +required
	Until metav1.Time `json:"until"`

	// Reason says why. Every message about the gate carries it meanwhile.
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Reason string `json:"reason,omitempty"`
}
