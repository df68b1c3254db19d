"""What does a compiled program mean for the chip? Does it fit in HBM, what does it hold, how much does it move?"""
