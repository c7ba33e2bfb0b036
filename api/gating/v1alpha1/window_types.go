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

// WallClock is a time on the wall clock of a window's zone: a repeated one, as a cron expression of five fields, or a
// single one, as a date with a time.
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?|[0-9A-Za-z*?/,-]+( +[0-9A-Za-z*?/,-]+){4})$`
type WallClock string

// Window is a time that begins and ends by the wall clock of a time zone, once or repeatedly. If the clock skips the
// beginning or the end, it happens when the skip ends. If the clock shows it twice, it happens the first time.
// +kubebuilder:validation:XValidation:rule="self.from != self.to",message="from and to must not be the same"
// +kubebuilder:validation:XValidation:rule="self.from.matches('T[0-9]{2}:') == self.to.matches('T[0-9]{2}:')",message="from and to must both be cron expressions, or both dates with a time of day"
// +kubebuilder:validation:XValidation:rule="!self.from.matches('T[0-9]{2}:') || !self.to.matches('T[0-9]{2}:') || timestamp(self.from + (size(self.from) == 16 ? ':00Z' : 'Z')) < timestamp(self.to + (size(self.to) == 16 ? ':00Z' : 'Z'))",message="from and to must be dates that exist, and to must be after from"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || timestamp('2026-01-01T12:00:00Z').getFullYear(self.timeZone) == 2026",message="timeZone must be a name of the tz database, such as Europe/Berlin"
type Window struct {
	// Name of the window, which messages about the gate repeat.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// From is when the window begins: a cron expression of five fields, such as '0 15 * * 5', or a date with a time,
	// such as '2026-12-23T00:00'.
	// +required
	From WallClock `json:"from"`

	// To is when the window ends, in the same format as from.
	// +required
	To WallClock `json:"to"`

	// TimeZone is the name of the clock's zone in the tz database, such as 'Europe/Berlin'. The default is UTC.
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$`
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the tz database, such as Europe/Berlin"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// Override is a temporary exception from the switch and the windows of a gate.
type Override struct {
	// Closed is the state of the gate during the override.
	// +required
	Closed bool `json:"closed"`

	// Until is when the override ends.
	// +kubebuilder:validation:XValidation:rule="self < timestamp('9999-01-01T00:00:00Z')",message="must be an RFC 3339 time before the year 9999"
	// +required
	Until metav1.Time `json:"until"`

	// Reason says why. It is part of every message about the gate during the override.
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Reason string `json:"reason,omitempty"`
}
