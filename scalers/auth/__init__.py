"""What authenticationRefs and the environment supply to triggers."""
